"""``python -m phrasescore.cli``, for where the command is not on the path."""

from phrasescore.cli import main

if __name__ == "__main__":
    main(prog_name="phrasescore")
