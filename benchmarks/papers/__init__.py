"""One script per published table or figure, our row beside the paper's."""
