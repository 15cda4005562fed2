//! Questions in the terminal: the dialog and the card.
