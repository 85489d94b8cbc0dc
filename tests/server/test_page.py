"""The page: one file, no outside assets, a policy that allows nothing else."""

from __future__ import annotations

import re

from omnitts_cli.server.page import page as answer_of_the_page


def test_the_page_is_one_file_without_outside_assets() -> None:
    body, headers = answer_of_the_page()
    html = body.decode()
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert re.findall(r"(?:src|href)=[\"']?(?!data:)[^\"' >]+", html) == []
    assert re.findall(r"(?<!xmlns=')https?://", html) == []
    assert not re.search(r"\son\w+=|style=\"", html), "inline handlers and styles are what the policy refuses"
    assert "innerHTML" not in html


def test_every_answer_has_its_own_nonce_and_the_policy_allows_nothing_else() -> None:
    answers = [answer_of_the_page() for _ in range(2)]
    nonces = [re.findall(r'nonce="([^"]+)"', body.decode()) for body, _ in answers]
    assert len(set(nonces[0])) == 1 and nonces[0][0] != nonces[1][0]
    policy = answers[0][1]["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonces[0][0]}'" in policy
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy
