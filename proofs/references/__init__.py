"""References of provable accuracy, written from the definitions over a number context."""
