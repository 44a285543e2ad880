"""Many runs: tables of them, and searches."""
