"""Records that name a stranger's process as ours, as after a reboot, or when a pid is reused."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec

from moorage.protocol.processes import UNKNOWN_EXIT_CODE, ProcessRecord
from torture.content import Content
from torture.stage import Place
from torture.strangers import Stranger
from torture.subjects import Chronicle, Subject

_OTHER_BOOT = "00000000-0000-4000-8000-000000000000"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def folder_of_records(record: ProcessRecord) -> Path:
    """Return where the records lie beside the logs."""
    return Path(record.log_path).parent.parent / "processes"


def plant(place: Place, chronicle: Chronicle, stranger: Stranger, rng: random.Random) -> bool:
    """Write the record of an impostor, which the next worker will read; needs one to resemble."""
    models = [
        each.record for each in chronicle.subjects if each.place == place.name and each.record
    ]
    if not models:
        return False
    seen, boot = stranger.first_seen, _BOOT_ID.read_text().strip()
    identity = rng.choice(
        (f"linux-v1:{boot}:{seen.started + 1}", f"linux-v1:{_OTHER_BOOT}:{seen.started}", "")
    )
    subject = _subject(place, chronicle)
    model, id_ = models[0], f"proc-{rng.getrandbits(32):08x}"
    subject.id = id_
    subject.record = msgspec.structs.replace(
        ProcessRecord(
            id=id_,
            owner_kind=model.owner_kind,
            owner_id=model.owner_id,
            root_thread_id=model.root_thread_id,
            lifecycle="managed",
            completion_mode="resume",
            status="running",
            pid=seen.pid,
            pgid=seen.pid,
            log_path=str(Path(model.log_path).with_name(f"{id_}.log")),
            command=f": {subject.tag} ; an impostor",
            cwd=model.cwd,
            started_at=model.started_at,
            updated_at=model.updated_at,
        ),
        process_start_time=identity,
        exit_code=UNKNOWN_EXIT_CODE,
    )
    target = folder_of_records(model) / f"{id_}.json"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(subject.record))
    chronicle.note("plant an impostor", subject)
    return True


def _subject(place: Place, chronicle: Chronicle) -> Subject:
    tag = chronicle.new_tag()
    subject = Subject(
        tag=tag,
        place=place.name,
        kind="printer",
        content=Content(tag),
        lifecycle="managed",
        most_lines=0,
        is_confirmed=True,
        crashes_before=place.crashes,
    )
    chronicle.subjects.append(subject)
    return subject
