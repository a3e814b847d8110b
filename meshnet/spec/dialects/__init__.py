"""Other projects' words for an interception, read as a Spec or refused by name. Pure: who calls looks names up."""
