"""The redirect kit: what the phones' SDKs ask of Google's hosts arrives at Edge, through the layer that the SDKs use."""

import asyncio
import json
import subprocess

from harness import configs
from harness.daemon import REPOSITORY
from harness.templates import marked

SAMPLE = REPOSITORY / "samples/android/StalecastRedirect.java"
# Asks as Firebase's SDK for Android does: HttpURLConnection, gzip for installations, a body of known length for fetches.
PHONE = r"""
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.zip.GZIPOutputStream;
import org.example.stalecast.StalecastRedirect;

public class Phone {
    static final String PROJECT = "/v1/projects/123456789012/";
    static final String APP = "\"appId\":\"1:123456789012:android:0a1b\"";

    static HttpURLConnection open(String host, String path, boolean isZipped, String body) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL("https://" + host + PROJECT + path).openConnection();
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        connection.setDoOutput(true);
        connection.setRequestMethod("POST");
        connection.setRequestProperty("Content-Type", "application/json");
        if (isZipped) connection.setRequestProperty("Content-Encoding", "gzip");
        else connection.setFixedLengthStreamingMode(bytes.length);
        OutputStream out = connection.getOutputStream();
        if (isZipped) out = new GZIPOutputStream(out);
        out.write(bytes);
        out.close();
        return connection;
    }

    static BufferedReader reader(HttpURLConnection connection) throws IOException {
        return new BufferedReader(new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8));
    }

    public static void main(String[] words) throws IOException {
        StalecastRedirect.install(words[0]);
        URLConnection other = new URL("https://example.invalid/a?b").openConnection(Proxy.NO_PROXY);
        System.out.println(other.getURL() + " " + (other instanceof javax.net.ssl.HttpsURLConnection));
        System.out.println(reader(open("firebaseinstallations.googleapis.com", "installations?key=k", true,
            "{\"fid\":\"cAAAAAAAAAAAAAAAAAAAAA\",\"authVersion\":\"FIS_v2\",\"sdkVersion\":\"a:17\"," + APP + "}"
            )).lines().reduce("", String::concat).replaceAll("\\s", ""));
        System.out.println(reader(open("firebaseremoteconfig.googleapis.com", "namespaces/firebase:fetch", false,
            "{\"appInstanceId\":\"cAAAAAAAAAAAAAAAAAAAAA\",\"appInstanceIdToken\":\"t\"," + APP + "}"
            )).lines().reduce("", String::concat).replaceAll("\\s", ""));
        HttpURLConnection stream = open("firebaseremoteconfigrealtime.googleapis.com",
            "namespaces/firebase:streamFetchInvalidations", false,
            "{\"project\":\"123456789012\",\"namespace\":\"firebase\",\"lastKnownVersionNumber\":\"0\"," + APP + "}");
        BufferedReader messages = reader(stream);
        for (String line; (line = messages.readLine()) != null; ) if (!line.isBlank()) System.out.println(line);
    }
}
"""


@configs.one_half
async def test_android_fetches_registers_and_listens_at_edge(daemon, tool, tmp_path):
    javac, java = tool("javac"), tool("java")
    (tmp_path / "Phone.java").write_text(PHONE)
    await asyncio.to_thread(subprocess.run, [javac, "-d", tmp_path, "-Xlint:-options", SAMPLE, tmp_path / "Phone.java"],
                            check=True, timeout=60)
    await daemon.publish(marked("one"))
    phone = subprocess.Popen([java, "-cp", tmp_path, "Phone", f"http://127.0.0.1:{daemon.edge}"],
                             stdout=subprocess.PIPE, text=True)
    try:
        async def line():
            text = await asyncio.wait_for(asyncio.to_thread(phone.stdout.readline), 30)
            assert text, f"ended with {phone.wait(10)}"
            return text
        assert (await line()).split() == ["https://example.invalid/a?b", "true"], "other hosts are the platform's"
        assert json.loads(await line())["authToken"]["token"]
        assert json.loads(await line())["entries"] == {"welcome_text": "one"}
        assert json.loads(await line())["latestTemplateVersionNumber"] == "1"
        await daemon.publish(marked("two"))
        assert json.loads(await line())["latestTemplateVersionNumber"] == "2"
    finally:
        phone.kill()
        phone.wait()
