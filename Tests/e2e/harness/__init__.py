"""What the end-to-end tests are made of: the daemon as a process, clients that record, checkers over records."""
