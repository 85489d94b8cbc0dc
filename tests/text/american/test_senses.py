"""Words whose reading depends on their meaning. None of these sentences is in the list of hard words."""

from __future__ import annotations

import pytest

from omnitts_cli.text.american.sentence import reader

CASES = """
lˈɛd|There is lead paint on the old door.
lˈɛd|Lead poisoning is dangerous.
lˈɛd|The roof was covered with lead.
lˈid|Follow my lead.
lˈid|They lead the way to the cave.
bˈAs|Turn up the bass.
bˈæs|We fished for bass on the lake.
bˈW|The singer took a bow.
bˈO|He drew the bow and loosed an arrow.
bˈO|Tie the ribbon in a bow.
tˈɛɹ|Please don't tear the page.
tˈɪɹ|There was a tear in her eye.
wˈInd|You have to wind this old watch.
wˈɪnd|A cold wind came from the north.
lˈIv|It was recorded at a live show.
lˈɪv|My parents live in Ohio.
lˈIv|The game will be broadcast live tonight.
ɹˈɛd|I have read all of her books.
ɹˈid|Can you read this for me?
ɹˈid|I read a chapter every night.
ɹˈɛd|She read the letter and cried.
ɹˈɛd|It was read by millions.
ɹˈid|Read the manual first.
ɹˈid|They like to read.
jˈust|I used to swim.
jˈuzd|The knife is used to cut bread.
jˈust|She is used to the noise.
jˈuzd|He used a hammer.
dˈOz|Two does and a buck stood in the field.
dˈʌz|What does it cost?
dˈOv|The submarine dove under the ice.
dˈʌv|A white dove sat on the roof.
mInˈut|The difference is minute.
mˈɪnət|Wait a minute.
wˈWnd|She wound the yarn into a ball.
wˈund|The wound is healing.
klˈOz|Would you close the door?
klˈOs|That was a close call.
klˈOs|We are very close friends.
jˈus|It's no use.
jˈuz|Use a fork.
nˈʌməɹ|My fingers grew number in the cold.
nˈʌmbəɹ|Pick a number.
ɹˈɛzəmˌA|Send your resume to the office.
ɹəzˈum|We resume work on Monday.
kəntˈɛnt|She was content with her life.
kˈɑntɛnt|The content of the page is new.
ˈɪnvəlɪd|The poor invalid could not walk.
ɪnvˈælɪd|Your ticket is invalid.
pɹizˈɛnt|Let me present the results.
pɹˈɛzᵊnt|At present we have none.
pɹˈɛzᵊnt|This is a present for you.
dəzˈɜɹt|Do not desert me.
ˈAʤɪd|The aged man smiled.
ˈAʤd|He was aged ten.
lˈɜɹnɪd|My learned friend is mistaken.
lˈɜɹnd|We learned a lot.
nˈis|They spent a week in Nice, France.
nˈIs|That was nice.
ɹˈW|The neighbors had a noisy row.
ɹˈO|They sat in the front row.
pYnt|It costs two point five dollars.
pˈYnt|That is a good point.
"""


@pytest.mark.parametrize(("sounds", "sentence"), [line.split("|") for line in CASES.strip().splitlines()])
def test_meaning_decides(sounds: str, sentence: str) -> None:
    assert f" {sounds} " in reader().spoken(sentence).translate(str.maketrans(",.!?", "    ")) + " "
