"""Who may use how much: teams, people, roles, flavors, quotas, tokens, audit."""
