"""observant: how often your sources change, how current your copy is, when to look again."""
