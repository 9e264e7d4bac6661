"""The engine's own records, opened by foreign TLS: OpenSSL with each cipher, Node, Java's JSSE, Chromium."""

import asyncio
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from harness.browser import Browser
from harness.templates import marked, wide
from harness.tls import Stream, launch_tls, trusting
from harness.waiting import eventually

VERSION = re.compile(rb'"latestTemplateVersionNumber":"(\d+)"')
ROUNDS = 40

NODE = """
const [address, ca] = process.argv.slice(1);
require('https').get(address, {ca: require('fs').readFileSync(ca), agent: false, minVersion: 'TLSv1.3'}, answer => {
  answer.pipe(process.stdout, {end: false});
  answer.on('end', () => console.log('ended well'));
}).on('error', problem => console.log(problem));
"""

# New keys for both sides every few messages.
JAVA = """
import java.io.*;
import java.net.*;
import java.security.*;
import java.security.cert.*;
import javax.net.ssl.*;

public class Listen {
  public static void main(String[] words) throws Exception {
    Security.setProperty("jdk.tls.keyLimits",
        "AES/GCM/NoPadding KeyUpdate 2^13, ChaCha20-Poly1305 KeyUpdate 2^13");
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null);
    store.setCertificateEntry("ca",
        CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(words[1])));
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext tls = SSLContext.getInstance("TLSv1.3");
    tls.init(null, trust.getTrustManagers(), null);
    HttpsURLConnection connection = (HttpsURLConnection) new URL(words[0]).openConnection();
    connection.setSSLSocketFactory(tls.getSocketFactory());
    InputStream answer = connection.getInputStream();
    byte[] buffer = new byte[65536];
    for (int count; (count = answer.read(buffer)) >= 0; System.out.flush()) System.out.write(buffer, 0, count);
    System.out.println("ended well");
  }
}
"""


def command(tool, name, address, ca, directory):
    if name == "node":
        return [tool("node"), "-e", NODE, address, ca]
    if name == "java":
        (directory / "Listen.java").write_text(JAVA)
        return [tool("java"), "-Djavax.net.debug=ssl,keygen", directory / "Listen.java", address, ca]
    curl = [tool("curl"), "-sSN", "--http1.1", "--tlsv1.3", "--cacert", ca, "--tls13-ciphers", name, address,
            "-w", "ended well"]
    if b"OpenSSL" not in subprocess.run([curl[0], "-V"], capture_output=True, check=True).stdout:
        pytest.skip("this curl has other TLS than OpenSSL: the check did not run")
    return curl


@pytest.mark.limit(120)
@pytest.mark.parametrize("name", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
                                  "node", "java"])
async def test_a_client_opens_every_record_and_the_end(launch, tmp_path, tool, name):
    daemon, authority = launch_tls(launch, tmp_path)
    words = command(tool, name, f"https://127.0.0.1:{daemon.edge}/v1/events?topic=PUSH_RC", authority.directory / "ca.pem",
                    tmp_path)
    with open(tmp_path / "said", "wb") as said:
        client = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=said)
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 1, timeout=40) == 1, \
        (tmp_path / "said").read_bytes()[-2000:]
    for number in range(1, ROUNDS + 1):
        # Of many lengths.
        await daemon.publish(wide(f"round {number}", number) if number % 2 else marked(f"round {number}"))
        text = b""
        while b'"latestTemplateVersionNumber":"%d"' % number not in text:
            text = await asyncio.wait_for(asyncio.to_thread(client.stdout.readline), 20)
            assert text, f"{name} ended at {number}: {(tmp_path / 'said').read_bytes()[-2000:]}"
    daemon.signal(signal.SIGTERM)
    text, _ = await asyncio.to_thread(client.communicate)
    assert text.endswith((b"ended well", b"ended well\n")) and client.returncode == 0
    if name == "java":
        updates = (tmp_path / "said").read_bytes().count(b"trigger key update")
        assert updates > 1, "no new keys were asked for: nothing was shown"


async def test_the_cheapest_cipher_is_chosen(launch, tmp_path):
    """OpenSSL would rather have AES-256, which costs a stream 48 bytes more."""
    if " aes " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor knows no AES: the check did not run")
    daemon, authority = launch_tls(launch, tmp_path)
    stream = await Stream(daemon.edge, trusting(authority)).open()
    assert stream.writer.get_extra_info("cipher")[0] == "TLS_AES_128_GCM_SHA256"
    stream.close()


@pytest.mark.limit(120)
async def test_chromium_opens_every_record(launch, tmp_path):
    if not shutil.which("chromium"):
        pytest.skip("no chromium")
    daemon, _ = launch_tls(launch, tmp_path)
    # Over HTTP/2 it would be the Front's.
    with Browser(shutil.which("chromium"), tmp_path / "profile", "--ignore-certificate-errors", "--disable-http2") as page:
        page.open(f"https://127.0.0.1:{daemon.edge}/healthz")
        await asyncio.to_thread(page.shows, "location.protocol === 'https:' && document.readyState === 'complete'")
        page.evaluate("window.heard = []; window.stream = new EventSource('/v1/events?topic=PUSH_RC');"
                      "stream.onmessage = event => heard.push(event.data)")
        assert await eventually(lambda: daemon.metric("stalecast_streams"), 1, timeout=20) == 1
        for number in range(1, ROUNDS + 1):
            await daemon.publish(wide(f"round {number}", number) if number % 2 else marked(f"round {number}"))
            await asyncio.to_thread(page.shows, f"heard.length === {number}")
        heard = VERSION.findall("".join(page.evaluate("heard")).encode())
        assert [int(version) for version in heard] == list(range(1, ROUNDS + 1))
        assert page.evaluate("stream.readyState") == 1
