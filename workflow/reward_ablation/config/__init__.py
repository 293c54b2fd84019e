"""The config: its sections, designs and TRL's settings; what a user may write, and the messages for mistakes."""
