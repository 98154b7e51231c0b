"""A callback of LiteLLM's proxy that refuses the calls of keys which floodgate has closed, and writes a line of JSON when a call begins
and when it ends. floodgate follows that file. Beside it: floodgate.py and floodgate_web.py of deploy/clients/python.
"""
import json
import logging
import logging.handlers
import time

from fastapi import HTTPException
from floodgate import Gate
from floodgate_web import fields, identifier
from litellm.integrations.custom_logger import CustomLogger

FEED = "unix:/run/floodgate/feed.sock"
LOG = "/var/log/litellm/floodgate.log"
FORGOTTEN = 3600_000  # a call of which LiteLLM says nothing more, in ms
DECLARED = ("max_completion_tokens", "max_tokens", "max_output_tokens")  # of Chat Completions, and of Responses


class Floodgate(CustomLogger):
    def __init__(self, gate, path):
        super().__init__()
        self._gate, self._log = gate, logging.handlers.WatchedFileHandler(path)  # which finds out that a log was rotated
        self._running = {}  # the first lines of calls, by call and key: clients choose the ids of their calls, so one may have several

    def _write(self, line):
        self._log.handle(logging.makeLogRecord({"msg": json.dumps(line)}))

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        key, call, now = user_api_key_dict.api_key, data.get("litellm_call_id"), time.time_ns() // 1_000_000
        if not key or not call:
            return
        declared = next((n for n in map(data.get, DECLARED) if type(n) is int and 0 < n < 1 << 40), 0)
        line = {"time": now, "type": "start", "key": key, "model": str(data.get("model", "")), "declared": declared}
        verdict = self._gate.check(("key", identifier(key)))
        if verdict.closed:
            self._write({**line, "status": 429})
            raise HTTPException(429, "Too Many Requests", dict(fields(verdict)))
        self._write(line)
        self._running.setdefault((call, key), []).append(line)
        while self._running[first := next(iter(self._running))][0]["time"] < now - FORGOTTEN:
            del self._running[first]

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        """A call succeeded, or its client went away in the middle of a stream."""
        payload = kwargs.get("standard_logging_object") or {}
        self._end(kwargs.get("litellm_call_id"), payload.get("metadata", {}).get("user_api_key_hash"), payload.get("total_tokens"))

    async def async_post_call_failure_hook(self, request_data, original_exception, user_api_key_dict, traceback_str=None):
        """A call failed for good. async_log_failure_event comes once for each attempt, also if the next one succeeds."""
        self._end(request_data.get("litellm_call_id"), user_api_key_dict.api_key, 0)

    def _end(self, call, key, cost):
        lines = self._running.get((call, key))
        if not lines:
            return  # it was refused, or has ended
        line, now = lines.pop(0), time.time_ns() // 1_000_000
        if not lines:
            del self._running[call, key]
        self._write({**line, "time": now, "type": "end", "cost": cost or 0, "duration": now - line["time"]})


callback = Floodgate(Gate(FEED, kinds=["key"]), LOG)
