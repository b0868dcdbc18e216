"""What is computed from the values of a group once an engine has listed or added them."""
