"""Settings of Sphinx. What depends on the course's address is handed in by `building`."""

import json
import os
from pathlib import Path

project = "Accelerators in Colab, measured"
author = "the course's authors"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_llms_txt",
    "sphinxext.opengraph",
]
templates_path = [str(Path(__file__).parent / "autosummary")]
exclude_patterns = ["jupyter_execute", "**/__pycache__"]

# Lessons are shown as they were stored: a site that runs them would show this machine's numbers.
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict] = {}  # they would be fetched from elsewhere
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
smartquotes = False  # texts of errors and options stay as they are
default_role = "code"  # docstrings have names in single backticks
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("sorting.js", {"defer": "defer"})]
html_show_sourcelink = False
html_search_scorer = str(Path(__file__).parent / "static" / "ranking.js")
html_copy_source = True  # llms.txt is made from them
html_theme_options = {
    "logo": {"text": "Accelerators in Colab"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "secondary_sidebar_items": {
        "**": ["page-toc", "edit-this-page"],
        "index": [],
        "explain": [],
        "fits": [],
        "gpu": [],
        "chips": [],
    },
    "use_edit_page_button": True,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages with no others beside them have no column for such.
_ALONE = (
    "index explain fits gpu chips search genindex own glossary frameworks doctor planner facts published "
    "scoreboard machines slow further cite owner fork contributing changelog"
)
html_sidebars: dict[str, list[str]] = {name: [] for name in _ALONE.split()}
html_context = {
    "default_mode": "auto",
    "edit_page_url_template": "{{ edited.get(file_name) or edited.get('') }}",
    "edited": json.loads(os.environ.get("EDITED", "{}")),
}
html_favicon = "static/favicon.svg"

ogp_social_cards = {"enable": False}
ogp_enable_meta_description = True
llms_txt_title = project
llms_txt_full_file = False  # notebooks as JSON are no text
