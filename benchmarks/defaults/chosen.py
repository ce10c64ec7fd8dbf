"""Shared sets that docs/decisions.md names where a rule of the default was chosen; on the others none was."""

CHOSEN_ON = (
    *("satimage", "usps", "usps4", "ijcnn1", "uci_kin40k", "uci_protein", "uci_pumadyn32nm", "mnist"),
    *("crabs", "raetsch_banana", "raetsch_german", "raetsch_image", "raetsch_waveform"),
    *("raetsch_ringnorm", "raetsch_twonorm", "raetsch_titanic", "pima_uci_nosplit", "flights3m"),
)
