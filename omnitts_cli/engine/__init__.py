"""Time: who speaks when. No family names."""
