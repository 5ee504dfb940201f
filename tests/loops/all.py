"""All tests in loops of the frameworks', in one process: PyTorch and the frameworks are imported once.

    python tests/loops/all.py
"""
import frameworks  # Comes first: the copies that it has killed must have no threads to wait for.

import borrowed
import every_hook

if __name__ == "__main__":
    for part in (frameworks, every_hook, borrowed):
        part.main()
