"""Who is told when an app needs somebody: rules, what they find, and a webhook."""
