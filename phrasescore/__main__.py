"""Make ``python -m phrasescore`` run the command ``phrasescore``, as for ``torchrun -m``."""

from phrasescore.cli import main

if __name__ == "__main__":
    main(prog_name="phrasescore")
