"""The pages of `tidegate serve`: what is in the lake, where its parts lie, and what a query does with them."""
