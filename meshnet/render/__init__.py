"""Program to the text of one backend. A renderer knows no feature."""
