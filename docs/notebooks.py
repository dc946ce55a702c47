"""Run the notebooks of the documentation and keep what they show.

python docs/notebooks.py [NAME …]
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def executed(file):
    """A notebook as Jupyter runs it."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=1200, kernel_name="python3", record_timing=False).execute()
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.ipynb")):
        if not sys.argv[1:] or file.stem in sys.argv[1:]:
            print(file.stem)
            nbformat.write(executed(file), file)
