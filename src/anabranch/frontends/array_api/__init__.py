"""The array API standard on our values: its names, signatures and utilities, for `anabranch.xp`."""
