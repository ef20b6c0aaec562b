"""The vocabulary of reasons."""

from fuser.scheduling.verdicts import FUSED, VERDICTS, meaning


def test_every_code_has_a_sentence() -> None:
    """Codes are short, sentences say what is meant; a code from elsewhere stands for itself."""
    assert all(len(sentence.split()) > 3 for sentence in VERDICTS.values())
    assert set(FUSED) < set(VERDICTS)
    assert meaning("inlined") == VERDICTS["inlined"]
    assert meaning("gpu: no barrier") == "gpu: no barrier"
