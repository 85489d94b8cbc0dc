"""Promises to users, and the tests that hold them. The names are looked up, so none can get lost."""

import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

KEPT = {
    "errors are error, cause, try": ["test_an_error_has_four_lines_at_most"],
    "exit codes mean something": [
        "test_every_error_class_has_its_own_exit_code",
        "test_every_failure_is_json_and_words",
    ],
    "say never hangs on a terminal": ["test_no_text_on_a_terminal_is_refused_at_once"],
    "files are whole or not there": ["test_a_file_appears_whole_and_only_at_the_end"],
    "Ctrl-C keeps finished sentences": ["test_a_signal_waits_for_nothing_and_finished_sentences_are_kept"],
    "SIGTERM and SIGHUP do too": ["test_a_signal_waits_for_nothing_and_finished_sentences_are_kept"],
    "stdout holds nothing but sound": ["test_stdout_gets_a_wav_and_nothing_else"],
    "a closed pipe is 141": ["test_a_closed_pipe_is_141"],
    "--json has seed, LUFS, peak and sum": [
        "test_json_subtitles_and_codes_say_what_was_made",
        "test_json_has_the_loudness",
    ],
    "speech-N.wav counts up, also in a race": ["test_runs_never_choose_the_same_name"],
    "doctor really speaks": ["test_the_doctor_speaks_with_it"],
    "completion knows my voices": ["test_completion_knows_saved_voices"],
    "any clip is read": ["test_what_ffmpeg_writes", "test_a_clip_on_stdin"],
    "long clips are cut at a pause": ["test_31_seconds_are_cut_at_a_pause_with_a_notice"],
    "consent and the clip's hash are in the voice": ["test_clone_speaks_and_keeps_the_voice"],
    "a foreign language is told, and refused where it was asked for": [
        "test_another_language_is_read_with_a_notice_unless_it_was_asked_for",
        "test_they_are_quoted_as_they_stand",
    ],
    "a PDF, zip or wav is not read as text": ["test_what_is_surely_no_text_is_called_what_it_is"],
    "did you mean": [
        "test_what_is_wrong_in_a_file_is_3_with_its_place",
        "test_a_variable_that_no_option_has_is_a_warning",
    ],
    "a FIFO is written in place": ["test_a_fifo_is_written_in_place"],
    "an open pipe is spoken line by line": ["test_streams_line_by_line_from_an_open_pipe"],
    "a full disk, to the byte": ["test_a_really_full_disk", "test_a_full_disk_is_8"],
    "a read-only folder": ["test_read_only_folder"],
    "memory stays flat": ["test_hours_in_flat_memory"],
    "--dry-run loads nothing": ["test_dry_run_loads_nothing"],
    "tables on a terminal, tabs in a pipe": ["test_tables_fit", "test_list_shows_saved_voices_for_people_and_programs"],
    "tiny speaks, clones and designs from the package": [
        "test_a_recogniser_understands_the_default_voice",
        "test_a_clone_speaks_at_the_pitch_of_its_clip",
        "test_a_description_is_followed",
    ],
}  # fmt: skip


@functools.cache
def sources() -> str:
    return "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("promise", KEPT)
def test_what_was_excellent_has_its_test(promise: str) -> None:
    missing = [name for name in KEPT[promise] if not re.search(rf"^def {name}\b", sources(), re.MULTILINE)]
    assert missing == []
