"""Settings of Sphinx. `python docs/site` stages the pages and builds them with this."""

from __future__ import annotations

from typing import Any

from dura.types import __version__

project, author, copyright = "dura", "the authors of dura", "the authors of dura, Apache-2.0"  # noqa: A001 - Sphinx's name
version = release = __version__
extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "index"

# Pages are GitHub's Markdown: the same headings have the same anchors.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "strikethrough"]
nb_execution_mode = "off"  # the notebooks hold their output; a test runs them
nb_ipywidgets_js: dict[str, Any] = {}  # nothing is loaded from another host

python_maximum_signature_line_length = 100
add_module_names = False

html_theme = "furo"
html_title = f"dura {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1d5c8f",
        "color-brand-content": "#1d5c8f",
        "color-brand-visited": "#1d5c8f",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8fc1ea",
        "color-brand-content": "#8fc1ea",
        "color-brand-visited": "#8fc1ea",
    },
}
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
smartquotes = False  # quotes are often code
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
