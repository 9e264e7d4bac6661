"""A network that can be made bad: a proxy on 127.0.0.1 whose mode may change at any time, for all its connections."""

import socket
import struct
import threading

PORTAL = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 34\r\n\r\n"
    b"<html><b>Please log in</b></html>\n"
)


class FaultyNetwork:
    """`with FaultyNetwork(port) as network: network.mode = "stall"`.

    pass    bytes go both ways as they come
    stall   connections are accepted, and nothing goes through, then or on those there were
    reset   connections are reset, those there were as well
    buffer  the server's answer is held back until it is complete: a stream never is
    portal  every request is answered with a page of HTML
    """

    def __init__(self, port):
        self.target = port
        self._mode = "pass"
        self._open = set()
        self._lock = threading.Lock()

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_all()

    @property
    def mode(self):
        return self._mode

    @mode.setter
    def mode(self, mode):
        """Connections that are open feel a reset and a portal at once; a proxy that buffers is another proxy."""
        self._mode = mode
        if mode in ("reset", "portal", "buffer"):
            self._end_all()

    def _end_all(self):
        with self._lock:
            ended, self._open = self._open, set()
        for each in ended:
            self._end(each)

    @classmethod
    def _end(cls, peer):
        try:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        cls._close(peer)

    @staticmethod
    def _close(peer):
        """The other end hears of a close alone only when no thread of ours waits in `recv` any more."""
        try:
            peer.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        peer.close()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            if self._mode == "reset":
                self._end(peer)
                continue
            with self._lock:
                self._open.add(peer)
            threading.Thread(target=self._serve, args=(peer, self._mode), daemon=True).start()

    def _serve(self, peer, mode):
        server = None
        try:
            if mode == "stall":
                # Until the other end has enough of it, or the mode ends it.
                while peer.recv(65536):
                    pass
            elif mode == "portal":
                peer.recv(65536)
                peer.sendall(PORTAL)
            else:
                server = socket.create_connection(("127.0.0.1", self.target))
                with self._lock:
                    self._open.add(server)
                threading.Thread(target=self._upload, args=(peer, server), daemon=True).start()
                self._download(server, peer, mode)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= {peer, server}
            for each in (peer, server):
                if each:
                    self._close(each)

    def _upload(self, peer, server):
        try:
            while data := peer.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _download(self, server, peer, mode):
        held = []
        while data := server.recv(65536):
            if mode == "buffer":
                held.append(data)
            elif self._mode != "stall":
                peer.sendall(data)
        peer.sendall(b"".join(held))
