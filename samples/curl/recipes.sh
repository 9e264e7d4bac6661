#!/usr/bin/env bash
# What a client does, with curl alone: samples/curl/recipes.sh [EDGE]
set -euo pipefail
edge=${1:-http://127.0.0.1:8080}

echo '# Is anything newer than version 0? A long-poll answers at once when there is.'
curl -fsS "$edge/v1/poll?topic=PUSH_RC&project=demo&namespace=firebase&have=0&wait=0s"
echo
echo '# The values for this client.'
curl -fsS -X POST -H 'Content-Type: application/json' \
    -d '{"appId":"1:123456789012:web:57a1eca57","appInstanceId":"samplecurl000000000000","appInstanceIdToken":"sample","countryCode":"FR"}' \
    "$edge/v1/projects/demo/namespaces/firebase:fetch?key=sample"
echo
echo '# The stream; in a real client it stays open (curl -N).'
curl -sN --max-time 1 "$edge/v1/events?topic=PUSH_RC&project=demo&namespace=firebase&have=0" || [[ $? == 28 ]]
