"""A small OFREP server that is right, or wrong in one way: what the suite is tried with.

    python wrong_server.py [--fault NAME]      prints its port; POST /change changes a flag
"""

import argparse
import http.server
import json
import threading

FAULTS = {
    "text-for-number": "a_flag_has_its_value_in_its_type",
    "no-reason": "a_flag_has_its_value_in_its_type",
    "context-ignored": "a_flag_depends_on_the_context",
    "unknown-is-general": "an_unknown_flag_is_not_found",
    "cut-body-is-500": "a_body_that_cannot_be_read_is_a_parse_error",
    "list-is-context": "a_context_that_is_none_is_refused",
    "bulk-differs": "all_flags_are_those_of_single_requests",
    "etag-ignored": "an_etag_answers_not_modified",
    "etag-stays": "an_etag_ends_with_the_flags_it_is_of",
    "stream-moves": "streams_are_described_and_their_addresses_are_stable",
    "event-is-named": "an_event_makes_the_next_answer_a_newer_one",
    "event-too-early": "an_event_makes_the_next_answer_a_newer_one",
    "no-replay": "a_client_that_comes_back_is_told_what_it_missed",
    "open-to-all": "without_a_good_credential_it_is_401",
    "forbidden-is-401": "a_credential_without_the_right_is_403",
    "limit-without-delay": "too_many_requests_are_told_when_to_come_back",
    "etag-hidden": "a_page_of_another_origin_reads_what_providers_read",
}
FLAGS = {"bool_flag": True, "string_flag": "hello", "int_flag": 42, "float_flag": 3.5,
         "object_flag": {"a": [1, "two", None]}, "plan_flag": "free"}


class State:
    version, served, answers, limited = 1, 1, 0, 0
    changed = threading.Condition()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fault = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=None, headers=()):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        exposed = "Retry-After" if self.fault == "etag-hidden" else "ETag, Retry-After"
        for name, value in (("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", exposed), *headers):
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_OPTIONS(self):
        self.answer(204, None, [("Access-Control-Allow-Methods", "POST, OPTIONS"),
                                ("Access-Control-Allow-Headers", "content-type, if-none-match, x-api-key")])

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/change":
            with State.changed:
                State.version += 1
                # The stream tells at once; the answers follow with the next change.
                State.served = State.version - (1 if self.fault == "event-too-early" else 0)
                State.changed.notify_all()
            return self.answer(200, {})
        key = self.path.split("?")[0].removeprefix("/ofrep/v1/evaluate/flags").removeprefix("/") or None
        if not self.may(self.headers.get("X-API-Key")):
            return None
        try:
            context = json.loads(body)["context"]
        except (ValueError, TypeError, KeyError):
            return self.answer(500 if self.fault == "cut-body-is-500" else 400, error("PARSE_ERROR", key))
        if not isinstance(context, dict) and self.fault == "list-is-context":
            context = {}
        if not isinstance(context, dict) or not isinstance(context.get("targetingKey", ""), str):
            return self.answer(400, error("INVALID_CONTEXT", key))
        return self.one(key, context) if key else self.all(context)

    def may(self, credential):
        if credential == "good" or self.fault == "open-to-all" and credential == "bad":
            return True
        if credential == "busy":
            State.limited += 1
            delay = [] if self.fault == "limit-without-delay" else [("Retry-After", "1")]
            if State.limited > 3:
                self.answer(429, error("GENERAL"), delay)
                return False
            return True
        forbidden = credential == "small" and self.fault != "forbidden-is-401"
        self.answer(403 if forbidden else 401, error("GENERAL"))
        return False

    def flag(self, key, context):
        is_pro = key == "plan_flag" and context.get("plan") == "pro" and self.fault != "context-ignored"
        value = "pro" if is_pro else FLAGS[key]
        if self.fault == "text-for-number" and isinstance(value, float):
            value = str(value)
        flag = {"key": key, "value": value, "reason": "TARGETING_MATCH" if is_pro else "STATIC",
                "variant": "pro" if is_pro else "default"}
        if self.fault == "no-reason":
            del flag["reason"]
        return flag

    def one(self, key, context):
        if key not in FLAGS:
            return self.answer(404, error("GENERAL" if self.fault == "unknown-is-general" else "FLAG_NOT_FOUND", key))
        return self.answer(200, self.flag(key, context))

    def all(self, context):
        State.answers += 1
        version = 1 if self.fault == "etag-stays" else State.served
        etag = f'"{version}-{context.get("plan")}"'
        if self.headers.get("If-None-Match") == etag and self.fault != "etag-ignored":
            return self.answer(304, None, [("ETag", etag)])
        flags = [self.flag(key, context) for key in FLAGS]
        if self.fault == "bulk-differs":
            flags[0]["value"] = False
        target = f"/events?n={State.answers}" if self.fault == "stream-moves" else "/events"
        streams = [{"type": "sse", "endpoint": {"requestUri": target}}]
        return self.answer(200, {"flags": flags, "eventStreams": streams}, [("ETag", etag)])

    def do_GET(self):
        known = int(self.headers.get("Last-Event-ID") or State.version)
        if self.fault == "no-replay":
            known = State.version
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Access-Control-Allow-Origin", "*"),
                            ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(b": hello\n\n")
            while True:
                with State.changed:
                    while State.version == known:
                        if not State.changed.wait(1):
                            self.wfile.write(b":\n\n")
                    known = State.version
                name = "event: refetch\n" if self.fault == "event-is-named" else ""
                data = json.dumps({"type": "refetchEvaluation", "etag": str(known)})
                self.wfile.write(f"id: {known}\n{name}data: {data}\n\n".encode())
        except ConnectionError:
            pass


def error(code, key=None):
    return {"errorCode": code, "errorDetails": "refused", **({"key": key} if key else {})}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS)
    Handler.fault = parser.parse_args().fault
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
