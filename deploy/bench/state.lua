-- For wrk: asks for the state of one topic, as a client that polls does.
wrk.path = "/v1/state?topic=PUSH_RC"
