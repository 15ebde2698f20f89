"""Train networks on phrase pairs, sentences or n-best lists."""
