from pathlib import Path

import pytest

from surelabel.data.images.separators import check_separators
from surelabel.utils.errors import UserError


@pytest.mark.parametrize("header", ["path;label", "path\tlabel"])
def test_a_header_of_one_name_with_a_separator_in_it_is_told(header):
    with pytest.raises(UserError, match=r"labels\.csv seems to separate its columns by ; or tabs: write it with comm"):
        check_separators(Path("labels.csv"), [header])


@pytest.mark.parametrize("header", [[], ["path"], ["path", "label"], ["a;b", "c"]])
def test_other_headers_pass(header):
    check_separators(Path("labels.csv"), header)
