#!/usr/bin/env python3
"""Asks whoever serves SESSION for leave to use SURFACE on VALUE: child.py SPOOL SESSION SURFACE VALUE [SECONDS]

Prints and exits with: approved 0, denied 1, nobody ruled 3; wrong usage 2, interrupted 130. It runs nothing itself.
"""
import contextlib, json, os, pathlib, signal, sys, time, urllib.parse, uuid


def build(ask_id, me, session, surface, value, seconds):
    agent = os.environ.get("ASKRELAY_AGENT", "unknown")
    core = {"requester": {"agentName": agent, "forwarded": False, "sessionId": None}, "surface": surface,
            "toolName": surface, "invokedToolName": None, "value": value, "matchedPattern": None,
            "commandContext": None, "executedUnit": None}
    kind = surface if surface in ("bash", "mcp", "skill") else "tool"
    body = {"id": ask_id, "createdAt": int(time.time() * 1000), "requesterSessionId": me, "targetSessionId": session,
            "requesterAgentName": agent, "payload": {"kind": kind, "request": core, "evidence": [], "annotations": []},
            "source": "tool_call", "surface": surface, "value": value}
    if kind in ("mcp", "skill"):  # There the value is the whole fact. Of a command it is not: see docs/joining.md.
        body["accessIntent"] = {"surface": surface, "matchValues": [value], "boundaryValue": None,
                                "requesterCwd": os.getcwd(), "principal": {"sessionId": me, "agentName": agent}}
    return json.dumps(body | {"relay": {"v": 1, "timeoutMs": int(seconds * 1000)}})


def send(text, request, response):
    for _ in range(50):  # Another child may remove the directories, empty as they are, before the file is in them.
        with contextlib.suppress(FileNotFoundError):
            for directory in (request.parent, response.parent):
                directory.mkdir(parents=True, exist_ok=True)
            request.with_suffix(".tmp").write_text(text)
            return request.with_suffix(".tmp").rename(request)
    raise OSError("the request cannot be written")


def read(path, limit):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(limit)


def wait(response, heartbeat, seconds):
    """The bytes of the answer; nothing when the time is over, or when the heartbeat is away or has stopped changing."""
    beat, changed_at, deadline = None, time.monotonic(), time.monotonic() + seconds
    while not response.exists() and time.monotonic() < deadline:
        seen, beat = beat, read(heartbeat, 16_384)
        if beat and beat != seen:
            changed_at = time.monotonic()
        if time.monotonic() - changed_at > (7 if beat else 2):
            break
        time.sleep(0.1)
    return read(response, 262_144)


def judge(text, session):
    """Exit code and sentence. Only an answer that is right in every part counts."""
    def once(pairs):
        if len(dict(pairs)) < len(pairs):
            raise ValueError("the answer has a key twice")
        return dict(pairs)

    answer = json.loads(text.decode(), object_pairs_hook=once)  # Bytes would be taken for UTF-16 too, or with a mark.
    if answer["responderSessionId"] != session:
        raise ValueError("the answer is not from the session that was asked")
    decider = answer.get("decidedBy") or {}
    while decider.get("kind") == "forwarded":
        decider = decider.get("decision") or {}
    if decider.get("kind") in ("unavailable", "gate_error"):
        raise ValueError("the session could not ask")
    if answer["approved"] is True and answer["state"] in ("approved", "approved_for_session"):
        return 0, "approved"
    if answer["approved"] is False and answer["state"] in ("denied", "denied_with_reason"):
        return 1, f"denied {json.dumps(answer.get('denialReason') or '')}"
    raise ValueError("the answer contradicts itself")


def main(spool, session, surface, value, seconds="600"):
    if os.environ.get("ASKRELAY_SERVING_KEY"):
        raise ValueError("a key is pinned, and this script cannot check a seal; use `askrelay ask`")
    name, ask_id = urllib.parse.quote(session, safe="!~*'()"), f"py-{uuid.uuid4()}"
    if name in ("", ".", ".."):
        raise ValueError("there can be no such session")
    root, heartbeat = pathlib.Path(spool, "sessions", name), pathlib.Path(spool, "serving", f"{name}.json")
    request, response = root / "requests" / f"{ask_id}.json", root / "responses" / f"{ask_id}.json"
    me = os.environ.get("ASKRELAY_SESSION", ask_id)
    try:
        send(build(ask_id, me, session, surface, value, float(seconds)), request, response)
        text = wait(response, heartbeat, float(seconds))
        if not text:
            raise ValueError("no answer in time, or nobody serves the session")
        return judge(text, session)
    finally:
        for path in (request, request.with_suffix(".tmp"), response):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Only what is empty, and never the responses while a request is left.
            for directory in (request.parent, response.parent, root):
                directory.rmdir()


if __name__ == "__main__":
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if len(sys.argv) not in (5, 6):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        code, sentence = main(*sys.argv[1:])
    except KeyboardInterrupt:
        code, sentence = 130, "interrupted"
    except Exception as error:  # Whatever went wrong, nobody has ruled: never an approval, and not a denial either.
        code, sentence = 3, f"nobody ruled: {error}"
    print(sentence)
    sys.exit(code)
