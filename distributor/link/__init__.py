"""One link, pure: what it copies and pulls (`LinkMachine`), where it aims (`TargetMachine`)."""
