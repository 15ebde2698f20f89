"""The old place of :mod:`phrasescore.workflows.file_names`, for verbs that still import it."""

from phrasescore.workflows.file_names import check_files as check_files
from phrasescore.workflows.file_names import check_models_stay as check_models_stay
from phrasescore.workflows.file_names import check_named as check_named
