"""A language model of two words in ARPA format, for sums by hand."""

# Log10. Both words are there alone, and in the order "la maison" as a sentence.
TINY_ARPA = """
\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-2.5\t<unk>
-99\t<s>\t-0.25
-1\t</s>
-0.5\tla\t-0.125
-0.75\tmaison\t-0.375

\\2-grams:
-0.2\t<s> la
-0.3\tla maison
-0.4\tmaison </s>

\\end\\
"""
