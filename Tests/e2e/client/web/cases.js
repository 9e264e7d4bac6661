// Promises of the client for web pages, each in a world of its own. A case's name is what it shows.

import {World, answer, check, json, page, same, stale} from "./world.js";

const minute = 60_000;

export const makeCases = ({createClient, eventReader}) => ({
  // Values

  async defaultsCountUntilTheServerHasAnswered() {
    const world = new World();
    world.served = undefined;
    const client = await world.start(createClient, {defaults: {title: "default", rows: 20, dark: true, list: [1]}});
    same([client.getString("title"), client.getNumber("rows"), client.getBoolean("dark")], ["default", 20, true]);
    same(client.getString("list"), "[1]");
    same(client.getValue("title").getSource(), "default");
    same([client.getString("none"), client.getNumber("none"), client.getBoolean("none")], ["", 0, false]);
    same(client.getValue("none").getSource(), "static");
    same([client.version, client.state], [0, "idle"]);
    world.fetches[0].answer(world.values(1, {title: "remote"}));
    await client.ready;
    same([client.getString("title"), client.getValue("title").getSource()], ["remote", "remote"]);
    same(client.getNumber("rows"), 20);
    same(Object.keys(client.getAll()).sort(), ["dark", "list", "rows", "title"]);
  },

  async textsAreReadAsFirebasesSDKReadsThem() {
    const world = new World();
    const texts = [
      "1", "TRUE", "t", "Yes", "y", "on", "0", "false", "2", "", "12.5", "1e3", "0x10", "12px", " 7 ", "NaN",
    ];
    world.served.entries = Object.fromEntries(texts.map((text, index) => [`k${index}`, text]));
    const client = await world.start(createClient);
    same(texts.filter((_, index) => client.getBoolean(`k${index}`)), ["1", "TRUE", "t", "Yes", "y", "on"]);
    const numbers = texts.map((_, index) => client.getNumber(`k${index}`));
    same(numbers, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 12.5, 1000, 16, 0, 7, 0]);
  },

  async valuesOfTheLastVisitAreThereAtOnce() {
    const world = new World();
    await world.live(createClient);
    const {length} = world.fetches;
    world.served = undefined;
    const client = createClient({endpoint: "http://edge.test", environment: world.environment});
    same([client.getString("title"), client.version], ["one", 1], "before anything was awaited");
    await client.ready;
    await world.rest();
    same(world.fetches.length, length, "what is fresh is not fetched again:");
    same([world.streams.at(-1).query.have, world.streams.at(-1).query.cursor], ["1", "e.1"]);
  },

  async aVisitAfterTheIntervalFetchesAndShowsWhatItHasMeanwhile() {
    for (const [delay, options, isFetched] of [
      [11 * 60 * minute, {}, false], [13 * 60 * minute, {}, true], [-minute, {}, true],
      [minute, {minimumFetchInterval: 1000}, true], [minute, {signals: {tier: "gold"}}, true],
      [minute, {appVersion: "2.0"}, true], [minute, {language: "fr-FR"}, true],
    ]) {
      const world = new World();
      (await world.live(createClient, {language: "de-DE"})).close();
      const {length} = world.fetches;
      world.time += delay;
      world.served = undefined;
      const client = await world.start(createClient, {language: "de-DE", ...options});
      same(world.fetches.length - length, Number(isFetched), JSON.stringify([delay, options]));
      same(client.getString("title"), "one");
      if (isFetched) same(world.fetches.at(-1).headers["If-None-Match"], '"etag-1"');
    }
  },

  async nothingChangedIsNoNews() {
    const world = new World();
    const client = await world.live(createClient);
    let told = 0;
    client.onUpdate(() => { told += 1; });
    world.served = undefined;
    const fetching = client.fetch();
    await world.rest();
    world.fetches.at(-1).answer(json({state: "NO_CHANGE", templateVersion: "2"}, 200, {ETag: '"etag-2"'}));
    await fetching;
    same([client.version, client.getString("title"), told], [2, "one", 0]);
  },

  async aTemplateWithoutValuesGivesTheDefaultsBack() {
    for (const state of ["NO_TEMPLATE", "EMPTY_CONFIG"]) {
      const world = new World();
      const client = await world.live(createClient, {defaults: {title: "default"}});
      const told = [];
      client.onUpdate((keys) => told.push(keys));
      world.served = undefined;
      const fetching = client.fetch();
      await world.rest();
      world.fetches.at(-1).answer(json({state, templateVersion: "2"}));
      await fetching;
      same([client.getString("title"), told], ["default", [["title"]]]);
    }
  },

  async whatAClientSaysOfItself() {
    const world = new World();
    const client = await world.live(createClient, {
      project: "shop", topics: ["PUSH_RC", "pay"], key: "stc_p_x", appVersion: "1.2", language: "fr-CA",
      signals: {tier: "gold"},
    });
    const {body, path, query, headers} = world.fetches[0];
    same([path, query], ["/v1/projects/shop/namespaces/firebase:fetch", {key: "stc_p_x"}]);
    same([body.appVersion, body.languageCode, body.countryCode], ["1.2", "fr-CA", "CA"]);
    same(body.customSignals, {tier: "gold"});
    for (const name of ["timeZone", "appInstanceId", "appInstanceIdToken", "firstOpenTime", "sdkVersion"]) {
      check(body[name], name);
    }
    same(headers, {}, "a browser would ask for leave first:");
    const stream = world.streams[0].query;
    same([stream.topic, stream.project, stream.namespace, stream.key], ["PUSH_RC,pay", "shop", "firebase", "stc_p_x"]);
    same([stream.client, stream.have, stream.active], [body.appInstanceId, "1", "1"]);
    client.close();
    const again = await world.start(createClient, {project: "shop", signals: {tier: "silver"}});
    same(world.fetches.at(-1).body.appInstanceId, body.appInstanceId, "the id is kept:");
    again.close();
  },

  // Messages

  async aMessageLeadsToAFetchThatTellsChangedKeys() {
    const world = new World();
    world.served.entries = {title: "one", rows: "20", old: "x"};
    const client = await world.live(createClient);
    const told = [];
    client.onUpdate((keys) => told.push([keys, client.getString("title")]));
    world.served = {version: 2, entries: {title: "two", rows: "20", fresh: "y"}};
    world.streams[0].tell(stale(2), "e.2");
    await world.rest();
    same([client.isStale, world.fetches.length], [true, 1], "a window of 0 is the next turn:");
    await world.pass(0);
    same(told, [[["fresh", "old", "title"], "two"]]);
    same([client.version, client.isStale], [2, false]);
    same([world.fetches[1].query, world.fetches[1].headers], [{cursor: "e.2"}, {}], "fenced, and without a preflight:");
    same(world.record.cursor, "e.2");
  },

  async aRollbackIsANewVersion() {
    const world = new World();
    const client = await world.live(createClient);
    for (const [version, title] of [[2, "two"], [3, "one"]]) {
      world.served = {version, entries: {title}};
      const more = version === 3 ? {updateType: "ROLLBACK", rollbackSource: "1"} : {};
      world.streams[0].tell(stale(version, more), `e.${version}`);
      await world.pass(0);
      same([client.version, client.getString("title")], [version, title]);
    }
  },

  async withManualActivationThePageChooses() {
    const world = new World();
    const client = await world.live(createClient, {activation: "manual"});
    same(client.getString("title"), "", "not even the first is in force:");
    same(client.activate(), ["title"]);
    const told = [];
    client.onUpdate((keys) => told.push([keys, client.getString("title")]));
    world.served = {version: 2, entries: {title: "two"}};
    world.streams[0].tell(stale(2));
    await world.pass(0);
    same([told, client.version, world.record.version], [[[["title"], "one"]], 1, 2]);
    same([client.activate(), client.getString("title"), client.version, client.activate()], [["title"], "two", 2, []]);
  },

  async fetchesAreSpreadOverTheHerdWindow() {
    const world = new World();
    await world.live(createClient);
    world.served.version = 2;
    world.chance = 0.25;
    world.streams[0].tell(stale(2, {fetchWindowMs: 8000}));
    await world.pass(1999);
    same(world.fetches.length, 1);
    await world.pass(1);
    same(world.fetches.length, 2);
  },

  async noMessagePutsADueFetchOffAndAnEarlierOneCounts() {
    const world = new World();
    await world.live(createClient);
    world.served.version = 4;
    world.streams[0].tell(stale(2, {fetchWindowMs: 8000}));
    world.streams[0].tell(stale(3, {fetchWindowMs: 80_000}));
    await world.pass(3999);
    same(world.fetches.length, 1);
    world.streams[0].tell(stale(4, {fetchWindowMs: 100_000, urgent: "true"}));
    await world.pass(0);
    same(world.fetches.length, 2);
    await world.pass(10 * minute);
    same(world.fetches.length, 2, "one fetch answers all:");
  },

  async aWindowThatIsToldDuringAFetchIsNotCutShort() {
    const world = new World();
    await world.live(createClient);
    world.served = undefined;
    world.streams[0].tell(stale(2));
    await world.pass(0);
    world.streams[0].tell(stale(3, {fetchWindowMs: 20_000}));
    await world.rest();
    world.fetches[1].answer(world.values(2, {}));
    await world.pass(9999);
    same(world.fetches.length, 2);
    await world.pass(1);
    same(world.fetches.length, 3);
  },

  async whatTheFetchUnderWayAnswersIsNotAskedTwice() {
    const world = new World();
    const client = await world.live(createClient);
    world.served = undefined;
    world.streams[0].tell(stale(2));
    await world.pass(0);
    world.streams[0].tell(stale(3));
    await world.pass(0);
    same(world.fetches.length, 2);
    world.fetches[1].answer(world.values(3, {title: "three"}));
    await world.pass(minute);
    same([world.fetches.length, client.isStale], [2, false]);
  },

  async aMessageWithoutAVersionIsAnsweredByALaterFetchOnly() {
    const world = new World();
    const client = await world.live(createClient);
    world.served = undefined;
    const fetching = client.fetch();
    await world.rest();
    world.streams[0].tell(stale(undefined));
    await world.rest();
    world.fetches.at(-1).answer(world.values(1, {title: "old"}));
    await fetching;
    same(client.isStale, true);
    world.served = {version: 1, entries: {title: "new"}};
    await world.pass(1000);
    same([client.isStale, client.getString("title")], [false, "new"]);
  },

  async aVersionThatIsHeldOrToldAlreadyIsNoNews() {
    const world = new World();
    await world.live(createClient);
    world.streams[0].tell(stale(1));
    await world.pass(minute);
    same(world.fetches.length, 1);
  },

  // Older answers

  async aServerThatLagsIsAskedThreeTimes() {
    const world = new World();
    const client = await world.live(createClient);
    world.streams[0].tell(stale(2));
    for (const [delay, count] of [[0, 2], [199, 2], [1, 3], [799, 3], [1, 4], [60_000, 4]]) {
      await world.pass(delay);
      same(world.fetches.length, count, `after ${delay}`);
    }
    same([client.isStale, client.getString("title")], [true, "one"]);
    world.served = {version: 2, entries: {title: "two"}};
    world.streams[0].end();
    await world.pass(3000);
    world.streams[1].open();
    world.streams[1].sync("e.2");
    await world.pass(999);
    same(world.fetches.length, 4, "many clients come back at once:");
    await world.pass(1);
    same([client.isStale, client.getString("title")], [false, "two"]);
  },

  async anOlderAnswerIsKeptOutForFiveMinutes() {
    const world = new World();
    const client = await world.live(createClient);
    world.served = {version: 5, entries: {title: "five"}};
    await client.fetch();
    world.served = {version: 4, entries: {title: "four"}};
    await client.fetch();
    same([client.getString("title"), client.version], ["five", 5]);
    world.time += 5 * minute - 1;
    await client.fetch();
    same(client.getString("title"), "five");
    world.time += 1;
    await client.fetch();
    same([client.getString("title"), client.version], ["four", 4]);
  },

  async aServerThatDisownsTheCursorIsBelievedAtOnce() {
    const world = new World();
    const client = await world.live(createClient);
    world.served = {version: 9, entries: {title: "nine"}};
    await client.fetch();
    world.served = {version: 2, entries: {title: "restored"}};
    world.streams[0].end();
    await world.pass(3000);
    const stream = world.streams[1];
    same(stream.query.cursor, "e.1");
    stream.open('event: reset\ndata: {"reason":"unknown-epoch"}\n\n');
    stream.tell(stale(2), "f.2");
    stream.sync("f.2");
    await world.pass(0);
    same([client.getString("title"), client.version, client.isStale], ["restored", 2, false]);
    same(world.record.cursor, "f.2");
  },

  // Failures

  async aFirstFetchThatFailsIsMadeUpFor() {
    const world = new World();
    world.served = undefined;
    const client = await world.start(createClient, {defaults: {title: "default"}});
    world.fetches[0].fail();
    await client.ready;
    same([client.getString("title"), client.isStale], ["default", true]);
    world.served = {version: 1, entries: {title: "one"}};
    await world.rest();
    same(world.streams[0].query.have, "0");
    await world.pass(2000);
    same([client.getString("title"), client.isStale], ["one", false]);
  },

  async failuresAreFollowedByLongerAndLongerPauses() {
    const world = new World();
    await world.live(createClient);
    world.served = undefined;
    world.streams[0].tell(stale(2));
    await world.pass(0);
    for (const pause of [200, 800, 15_000, 30_000, 60_000]) {
      const {length} = world.fetches;
      world.fetches.at(-1).fail();
      await world.pass(pause - 1);
      world.streams[0].say(":\n\n");
      same(world.fetches.length, length, `before ${pause}`);
      await world.pass(1);
      same(world.fetches.length, length + 1, `after ${pause}`);
    }
  },

  async aPauseThatTheServerNamesIsKept() {
    const world = new World();
    const client = await world.live(createClient);
    world.served = undefined;
    world.streams[0].tell(stale(2));
    await world.pass(0);
    world.fetches[1].answer(json({error: {message: "too many"}}, 503, {"Retry-After": "30"}));
    await world.rest();
    const refused = await client.fetch().catch((error) => error);
    same([refused.status, refused.retryAfter, world.fetches.length], [429, 30_000, 2]);
    world.streams[0].tell(stale(3));
    await world.pass(29_999);
    world.streams[0].say(":\n\n");
    same(world.fetches.length, 2, "no message breaks it:");
    world.served = {version: 3, entries: {title: "three"}};
    await world.pass(8001);
    same([world.fetches.length, client.getString("title")], [3, "three"]);
  },

  async aFetchThatIsNotAnsweredIsGivenUp() {
    const world = new World();
    world.served = undefined;
    const client = await world.start(createClient);
    await world.pass(15_000);
    await client.ready;
    check(world.fetches[0].isOver, "it goes on");
  },

  async errorsSayWhatIsWrong() {
    for (const [given, status, part] of [
      [json({error: {code: 403, message: "no grant"}}, 403), 403, "no grant"],
      [json({error: {code: 500, message: "Google may say 200"}}), 200, "Google may"],
      [page(), 200, "no config server"],
      [json(null), 200, "no config server"], [json({entries: "x"}), 200, "no config server"],
    ]) {
      const world = new World();
      world.served = undefined;
      const client = await world.start(createClient, {live: false});
      const fetching = client.fetch().catch((error) => error);
      world.fetches[0].answer(given);
      const error = await fetching;
      same(error.status, status);
      check(error instanceof Error && error.message.includes(part), error.message);
      same(world.timers.length, 0, "without a connection the page decides:");
    }
  },

  // Tokens

  async aRefusedTokenIsRenewedOnce() {
    const world = new World();
    world.served = undefined;
    const tokens = ["a", "b", "b"];
    let asked = 0;
    const client = await world.start(createClient, {token: async () => tokens[asked++]});
    same(world.fetches[0].headers.Authorization, "Bearer a");
    world.fetches[0].answer(json({}, 401));
    await world.rest();
    same(world.fetches[1].headers.Authorization, "Bearer b");
    world.fetches[1].answer(json({}, 401));
    await client.ready;
    same([world.fetches.length, asked], [2, 2], "the same token would be refused again:");
    same(world.streams[0].headers.Authorization, "Bearer b");
  },

  async aTokenThatExpiresIsRenewedBeforeAndTheStreamGoesOnWhereItWas() {
    const world = new World();
    let token = "a";
    const client = await world.live(createClient, {token: () => token});
    const states = [];
    client.onState((state) => states.push(state));
    token = "b";
    world.streams[0].say('event: auth\ndata: {"type":"expiring","inMs":30000}\n\n');
    await world.rest();
    check(world.streams[0].isOver, "the old stream goes on");
    same([world.streams[1].headers.Authorization, world.streams[1].query.cursor], ["Bearer b", "e.1"]);
    same(states, [], "nobody hears of it:");
  },

  async aPageThatGivesNoTokenIsNotWaitedForForEver() {
    const world = new World();
    world.served = undefined;
    const client = await world.start(createClient, {token: () => new Promise(() => {})});
    await world.pass(15_000);
    await client.ready;
    const failing = new World();
    await failing.live(createClient, {token: async () => { throw new Error("signed out"); }});
    same(failing.fetches[0].headers, {});
  },

  async aRefusalIsNotAskedAgainSoon() {
    const world = new World();
    const client = await world.start(createClient);
    const losses = [];
    client.onState((state, loss) => losses.push([state, loss?.kind, loss?.status]));
    world.streams[0].answer(json({}, 403));
    await world.rest();
    same(losses, [["waiting", "refused", 403]]);
    await world.pass(4999);
    same(world.streams.length, 1);
    await world.pass(1);
    same(world.streams.length, 2);
    // The same refusal is no news; another one is.
    world.streams[1].answer(json({}, 403));
    await world.pass(9000);
    world.streams[2].answer(json({}, 401));
    await world.rest();
    same(losses, [["waiting", "refused", 403], ["waiting", "refused", 401]]);
  },

  // The connection

  async aStreamThatEndsIsOpenedAgainWhenTheServerSaid() {
    const world = new World();
    const client = await world.live(createClient);
    world.streams[0].end();
    await world.rest();
    same(client.state, "waiting");
    await world.pass(2999);
    same(world.streams.length, 1);
    await world.pass(1);
    same(world.streams[1].query.cursor, "e.1");
    world.streams[1].fail();
    await world.pass(3999);
    same(world.streams.length, 2, "two in a row are backed off from:");
    await world.pass(1);
    same(world.streams.length, 3);
  },

  async retryAfterIsWaitedOut() {
    const world = new World();
    await world.start(createClient);
    world.streams[0].answer(json({}, 503, {"Retry-After": "20"}));
    await world.pass(22_999);
    same(world.streams.length, 1);
    await world.pass(1);
    same(world.streams.length, 2);
  },

  async aStreamWithoutHeartbeatsIsGivenUp() {
    const world = new World();
    await world.live(createClient);
    await world.pass(74_000);
    world.streams[0].say(": beat\n\n");
    await world.pass(74_000);
    check(!world.streams[0].isOver, "a comment is a sign of life");
    await world.pass(1000);
    check(world.streams[0].isOver, "it is silent");
  },

  async streamsThatAreHeldBackMakeWayForPollsUntilOneComesThrough() {
    const world = new World();
    const client = await world.start(createClient);
    await world.pass(15_000);
    await world.pass(2000);
    await world.pass(15_000);
    await world.pass(3000);
    same([world.streams.length, world.polls.length, world.polls[0].query.wait], [2, 1, "0"]);
    world.polls[0].answer(json({cursor: "e.1", messages: []}));
    await world.rest();
    same([client.state, world.polls[1].query.wait, world.polls[1].query.cursor], ["polling", "55000ms", "e.1"]);
    world.served = {version: 2, entries: {title: "two"}};
    world.polls[1].answer(json({cursor: "e.2", messages: [stale(2)]}));
    await world.pass(0);
    same([client.getString("title"), world.polls[2].query.cursor], ["two", "e.2"]);
    await world.pass(56_000);
    world.polls[2].answer(json({cursor: "e.2", messages: []}));
    await world.pass(3500);
    same(world.polls.length, 4);
    world.polls[3].answer(json({cursor: "e.2", messages: []}));
    await world.rest();
    await world.pass(1500);
    const stream = world.streams[2];
    check(stream, "no stream is tried");
    stream.open();
    stream.sync("e.2");
    await world.rest();
    same(client.state, "live");
  },

  async somebodyElsesPageMakesWayForPolls() {
    const world = new World();
    await world.start(createClient);
    world.streams[0].answer(page());
    await world.pass(2000);
    same(world.polls.length, 1);
    check(world.streams[0].isOver, "the page goes on");
    world.polls[0].answer(page());
    await world.pass(5000);
    same([world.polls.length, world.streams.length], [1, 2], "what works is found by turns:");
  },

  async anAnswerThatSaysNothingAtOnceMakesNoLoop() {
    const world = new World();
    await world.start(createClient);
    world.streams[0].answer(page());
    await world.pass(2000);
    for (let index = 0; index < 4; index += 1) {
      world.polls.at(-1).answer(json({cursor: "e.1", messages: []}));
      await world.pass(1499);
    }
    check(world.polls.length <= 5, `${world.polls.length} polls`);
  },

  async aServerThatWantsNoConnectionIsLeftAlone() {
    const world = new World();
    const client = await world.start(createClient);
    world.streams[0].answer(answer("", 204));
    await world.pass(60 * minute);
    same([client.state, world.requests.length, world.timers.length], ["ended", 2, 0]);
  },

  async aClosedClientDoesNothingMore() {
    const world = new World();
    const client = await world.live(createClient);
    world.streams[0].tell(stale(2, {fetchWindowMs: 1000}));
    await world.rest();
    client.close();
    await world.pass(60 * minute);
    same([client.state, world.requests.length, world.timers.length], ["idle", 2, 0]);
    check(world.streams[0].isOver, "the stream goes on");
    same(client.getString("title"), "one");
  },

  // Hostile worlds

  async namesAndValuesMayBeAnything() {
    const world = new World();
    world.served.entries = JSON.parse(
      '{"__proto__":"p","constructor":"c","toString":"t","n":1,"o":{"a":[1]},"z":null}');
    const client = await world.live(createClient);
    const texts = ["__proto__", "constructor", "toString", "n", "o", "z"].map((key) => client.getString(key));
    same(texts, ["p", "c", "t", "1", '{"a":[1]}', "null"]);
    same([client.getValue("hasOwnProperty").getSource(), {}.p], ["static", undefined]);
    client.close();
    const again = await world.start(createClient);
    same([again.getString("__proto__"), Object.hasOwn(again.getAll(), "__proto__")], ["p", true], "after a visit:");
  },

  async messagesMayBeAnything() {
    const world = new World();
    const client = await world.live(createClient);
    for (const data of ["", "x", "null", "[]", "7", '"STALE"', '{"CONFIG_STATE":"FRESH"}', '{"CONFIG_STATE":{}}']) {
      world.streams[0].say(`data: ${data}\n\n`);
    }
    world.streams[0].say('event: auth\ndata: nonsense\n\nevent: reset-not\ndata: x\n\nevent: synced\n\n');
    await world.pass(minute);
    same([client.state, client.isStale, world.fetches.length], ["live", false, 1]);
    for (const window of ["x", -1, null, {}, 1e300, "1e9"]) {
      world.streams[0].tell(stale("99999999999999999999", {fetchWindowMs: window}));
      await world.rest();
    }
    await world.pass(minute);
    same([client.isStale, world.fetches.length > 1], [false, true], "a version that is no number is any:");
  },

  async whatIsStoredMayBeAnything() {
    const record = {id: "known", version: 3, etag: "x", entries: {title: "kept"}, at: 1_700_000_000_000, cursor: "e.3"};
    for (const [text, title] of [
      ["", ""], ["{", ""], ["null", ""], ["[]", ""], ['"x"', ""], [JSON.stringify(record), "kept"],
      [JSON.stringify({...record, version: 1e300, target: -1, born: 1e300, at: "x", cursor: 7, owed: 1}), "kept"],
      [JSON.stringify({...record, entries: null}), ""],
    ]) {
      const world = new World();
      world.stored.set("stalecast http://edge.test/ demo firebase", text);
      const client = createClient({endpoint: "http://edge.test", environment: world.environment});
      same(client.getString("title"), title, text);
      await world.rest();
      world.time += 6 * minute;
      await client.fetch();
      same([client.getString("title"), client.version], ["one", 1], text);
      client.close();
    }
  },

  async aPageThatMayStoreNothingHasItsValues() {
    const world = new World();
    const refuse = () => { throw new DOMException("denied", "SecurityError"); };
    Object.assign(world.environment, {storage: {getItem: refuse, setItem: refuse}});
    const client = await world.live(createClient);
    same(client.getString("title"), "one");
  },

  async aListenersMistakeStopsNobody() {
    const world = new World();
    const client = await world.live(createClient);
    const told = [];
    client.onUpdate(() => { throw new Error("a mistake of the page, as this case wants it"); });
    const remove = client.onUpdate((keys) => told.push(keys));
    client.onState(() => { throw new Error("a mistake of the page, as this case wants it"); });
    world.served = {version: 2, entries: {title: "two"}};
    world.streams[0].tell(stale(2));
    await world.pass(0);
    same(told, [["title"]]);
    remove();
    world.served = {version: 3, entries: {title: "three"}};
    world.streams[0].tell(stale(3));
    await world.pass(0);
    same([told.length, client.getString("title")], [1, "three"]);
    world.streams[0].end();
    await world.pass(3000);
    same(world.streams.length, 2);
  },

  // The reader

  async aStreamIsReadTheSameHoweverItIsCut() {
    const text = "retry: 7\r\n: comment\r\nid: 1\ndata: a\r\rdata\ndata:b\ndata:  c\n\r\n"
      + "event: x\nid: no\0\ndata:y\n\ndata: lost\nid: 9";
    const read = (...pieces) => {
      const found = [];
      const take = eventReader((event) => found.push(event), (retry) => found.push(retry));
      pieces.forEach(take);
      return found;
    };
    const whole = read(text);
    same(whole, [
      7, {type: "message", data: "a", id: "1"}, {type: "message", data: "\nb\n c", id: "1"},
      {type: "x", data: "y", id: "1"},
    ]);
    for (let cut = 0; cut <= text.length; cut += 1) {
      same(read(text.slice(0, cut), "", text.slice(cut)), whole, `cut at ${cut}`);
    }
    same(read(...text), whole);
  },

  async anEventWithoutAnEndIsRefused() {
    let length = 0;
    const take = eventReader(() => {});
    try { for (; length < 1 << 22; length += 1024) take("x".repeat(1024)); } catch { /* As it should. */ }
    same(length, 1 << 20);
    const world = new World();
    await world.live(createClient);
    world.streams[0].say(`data: ${"x".repeat(1 << 21)}`);
    await world.pass(3000);
    check(world.streams[0].isOver && world.streams.length === 2, "it is read for ever");
  },
});
