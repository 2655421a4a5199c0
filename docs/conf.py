"""How the documentation is built."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "Moorage"
author = "The Moorage authors"
copyright = "2026, The Moorage authors"
release = installed_version("moorage")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Moorage {release}"

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "separated"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

# The build asks no other site for its index, so names from elsewhere cannot be resolved here. Names
# of Moorage itself are resolved or fail the build.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!moorage\b).*\..*"),
    (r"py:.*", r"[A-Za-z_]\w*"),
]
