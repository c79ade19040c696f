"""Stands in for transformers: its tokenizers come from a hub that is not asked here."""

from vllm_names import AutoTokenizer as AutoTokenizer
from vllm_names import PreTrainedTokenizerBase as PreTrainedTokenizerBase
