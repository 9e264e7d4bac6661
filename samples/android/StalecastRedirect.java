package org.example.stalecast;

import java.io.IOException;
import java.net.MalformedURLException;
import java.net.Proxy;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.net.URLStreamHandlerFactory;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * Sends what Firebase Remote Config asks of Google's hosts to a Stalecast's Edge: fetches, installations and the real-time
 * stream. Copy this file into the app, and begin {@code Application.onCreate()} with
 * {@code StalecastRedirect.install("https://edge.example.org");}.
 *
 * The SDK opens its connections with {@code URL.openConnection()}, which asks the one factory that a process may set. All
 * other hosts go to the platform's own handler. Without TLS (an emulator reaches its host as http://10.0.2.2:8080) the
 * app's network security configuration must permit cleartext traffic to that host.
 */
public final class StalecastRedirect extends URLStreamHandler implements URLStreamHandlerFactory {
    private static final Set<String> HOSTS = new HashSet<>(Arrays.asList(
            "firebaseremoteconfig.googleapis.com",
            "firebaseremoteconfigrealtime.googleapis.com",
            "firebaseinstallations.googleapis.com"));

    private final URL edge;
    /** Made before the factory is set: a URL that has it as context takes over the platform's handler. */
    private final URL platform;

    private StalecastRedirect(String edge) throws MalformedURLException {
        this.platform = new URL("https://localhost/");
        this.edge = new URL(edge.endsWith("/") ? edge : edge + "/");
    }

    /**
     * @param edge scheme, host and port of Edge, perhaps with a path
     * @throws Error when the process has a factory already
     */
    public static void install(String edge) {
        try {
            URL.setURLStreamHandlerFactory(new StalecastRedirect(edge));
        } catch (MalformedURLException error) {
            throw new IllegalArgumentException(edge + " is not the address of an Edge", error);
        }
    }

    @Override
    public URLStreamHandler createURLStreamHandler(String protocol) {
        // null means the platform's own.
        return "https".equals(protocol) ? this : null;
    }

    @Override
    protected URLConnection openConnection(URL url) throws IOException {
        return target(url).openConnection();
    }

    @Override
    protected URLConnection openConnection(URL url, Proxy proxy) throws IOException {
        return target(url).openConnection(proxy);
    }

    @Override
    protected int getDefaultPort() {
        return 443;
    }

    private URL target(URL url) throws MalformedURLException {
        if (!HOSTS.contains(url.getHost())) return new URL(platform, url.toExternalForm());
        return new URL(edge, edge.getPath() + url.getFile().substring(1));
    }
}
