"""A client of gRPC in plain Python, for one connection: it can do what clients of libraries do not, such as to die in the
middle of a message, and needs nothing from PyPI. Requests are of FP32; headers must come without Huffman codes, as
gRPC and HAProxy write them.
"""

import socket
import struct

OK, CANCELLED, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE = 0, 1, 3, 5, 8, 14

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
LARGEST_FRAME = 16384
STATIC_NAMES = (
    ":authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status "
    "accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow authorization "
    "cache-control content-disposition content-encoding content-language content-length content-location content-range "
    "content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range referer "
    "refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
).split()
STATIC_VALUES = {2: "GET", 3: "POST", 4: "/", 5: "/index.html", 6: "http", 7: "https", 8: "200", 9: "204", 10: "206",
                 11: "304", 12: "400", 13: "404", 14: "500", 16: "gzip, deflate"}


class Lost(Exception):
    """The connection or the stream ended before the answer was whole. `is_unprocessed`: the server says that it has not
    begun with the request, so any client may send it again."""

    def __init__(self, why, is_unprocessed=False):
        super().__init__(why)
        self.is_unprocessed = is_unprocessed


def varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def field(number, value):
    """Of a message: a text, bytes or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields_of(message):
    """(number, value) of each field of a message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            length = number()
            yield key >> 3, message[at : at + length]
            at += length
        else:
            raise ValueError(f"the message has the wire type {key & 7}")


def parameter(name, value):
    """Of a tensor: a text or an integer."""
    choice = field(3, value) if isinstance(value, str) else field(2, value)
    return field(4, field(1, name) + field(2, choice))


def infer_message(shape, data, model="digits", request="", region=None, output_region=None):
    """`data`: the bytes of the input. A region is (name, offset, bytes) in shared memory."""

    def place(of):
        name, offset, size = of
        return (parameter("shared_memory_region", name) + parameter("shared_memory_offset", offset)
                + parameter("shared_memory_byte_size", size))

    tensor = field(1, "input") + field(2, "FP32") + field(3, b"".join(varint(each) for each in shape))
    made = field(1, model) + field(3, request) + field(5, tensor + (place(region) if region else b""))
    if output_region:
        made += field(6, field(1, "output") + place(output_region))
    return made + (b"" if region else field(7, data))


class Headers:
    """Decodes the header blocks of one connection (RFC 7541)."""

    def __init__(self):
        self.table = []  # the newest first; entries that are evicted stay, and no index leads to them

    def decode(self, block):
        self.block, self.at, found = block, 0, {}
        while self.at < len(block):
            first = block[self.at]
            if first & 128:
                name, value = self.entry(self.integer(7))
            elif first & 64:
                name, value = self.literal(6)
                self.table.insert(0, (name, value))
            elif first & 32:
                self.integer(5)
                continue
            else:
                name, value = self.literal(4)
            found[name] = value
        return found

    def integer(self, bits):
        most = (1 << bits) - 1
        value = self.block[self.at] & most
        self.at += 1
        if value < most:
            return value
        shift = 0
        while True:
            byte = self.block[self.at]
            self.at += 1
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        if self.block[self.at] & 128:
            raise ValueError("a header has Huffman codes")
        length = self.integer(7)
        self.at += length
        return self.block[self.at - length : self.at].decode()

    def entry(self, index):
        if index <= 61:
            return STATIC_NAMES[index - 1], STATIC_VALUES.get(index, "")
        return self.table[index - 62]

    def literal(self, bits):
        index = self.integer(bits)
        name = self.entry(index)[0] if index else self.text()
        return name, self.text()


class RawGrpc:
    def __init__(self, port, timeout=30, window=1 << 30):
        """`window`: how many bytes of its answer each call takes before take_more(); by default more than there are."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.headers, self.next_stream, self.last_stream = b"", Headers(), 1, None
        of_connection = struct.pack(">I", (1 << 30) - 65536)
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window))
                  + self.frame(WINDOW_UPDATE, 0, 0, of_connection))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as failure:
            raise Lost(f"cannot send: {failure}") from failure

    def take_more(self, stream, size=1 << 20):
        self.send(self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size)))

    def close(self):
        self.socket.close()

    def begin(self, method):
        """A call; its messages follow by write()."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2

        def text(value):
            return varint(len(value)) + value.encode()  # all are shorter than 127

        block = b"".join(
            b"\0" + text(name) + text(value)
            for name, value in [(":method", "POST"), (":scheme", "http"),
                                (":path", f"/inference.GRPCInferenceService/{method}"), (":authority", "localhost"),
                                ("content-type", "application/grpc"), ("te", "trailers")]
        )
        return stream, self.frame(HEADERS, END_HEADERS, stream, block)

    def message_frames(self, stream, message, is_last):
        data = b"\0" + struct.pack(">I", len(message)) + message
        parts = [data[at : at + LARGEST_FRAME] for at in range(0, len(data), LARGEST_FRAME)]
        return b"".join(self.frame(DATA, END_STREAM if is_last and i == len(parts) - 1 else 0, stream, each)
                        for i, each in enumerate(parts))

    def call(self, method, message):
        """The status, its text and the answer of a call with one message, of at most 60 KiB."""
        stream, begin = self.begin(method)
        self.send(begin + self.message_frames(stream, message, True))
        return self.answer_of(stream)

    def answer_of(self, stream):
        data, found = b"", {}
        while True:
            kind, flags, at, payload = self.read_frame()
            if at != stream:
                continue
            if kind == DATA:
                data += payload
            elif kind == HEADERS:
                if not flags & END_HEADERS:
                    raise ValueError("headers of more than one frame")
                found.update(self.headers.decode(payload))
            elif kind == RST_STREAM:
                code = struct.unpack(">I", payload)[0]
                raise Lost(f"the stream was reset with {code}", is_unprocessed=code == 7)
            if flags & END_STREAM and kind in (DATA, HEADERS):
                break
        if "grpc-status" not in found:
            raise Lost(f"an answer without the status of gRPC: {found}")
        return int(found["grpc-status"]), found.get("grpc-message", ""), data[5:]

    def read_message(self, stream):
        """The next message of a stream that continues."""
        data = b""
        while len(data) < 5 or len(data) < 5 + struct.unpack(">I", data[1:5])[0]:
            kind, flags, at, payload = self.read_frame()
            if at != stream:
                continue
            if kind == HEADERS:
                self.headers.decode(payload)
            if kind == DATA:
                data += payload
            if kind == RST_STREAM or (flags & END_STREAM and kind in (DATA, HEADERS)):
                raise Lost("the stream has ended")
        return data[5:]

    def infer(self, shape, data, **more):
        """The status, its text and the bytes of the output."""
        status, why, answer = self.call("ModelInfer", infer_message(shape, data, **more))
        outputs = [value for number, value in fields_of(answer) if number == 6]
        return status, why, outputs[0] if outputs else b""

    def read_frame(self):
        while True:
            head = self.read(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = int.from_bytes(head[5:], "big")
            payload = self.read(length)
            if kind == SETTINGS and not flags & ACK:
                self.send(self.frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.send(self.frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                self.last_stream = int.from_bytes(payload[:4], "big")
                if self.last_stream < self.next_stream - 2:
                    raise Lost("the server goes away before this call", is_unprocessed=True)
            elif kind in (DATA, HEADERS, RST_STREAM):
                if flags & PADDED and kind != RST_STREAM:
                    payload = payload[1 : len(payload) - payload[0]]
                if flags & PRIORITY and kind == HEADERS:
                    payload = payload[5:]
                if kind == DATA and payload:
                    self.send(self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", length)))
                return kind, flags, stream, payload

    def read(self, length):
        while len(self.received) < length:
            try:
                got = self.socket.recv(65536)
            except OSError as failure:
                raise Lost(f"cannot read: {failure}") from failure
            if not got:
                raise Lost("the connection has ended")
            self.received += got
        part, self.received = self.received[:length], self.received[length:]
        return part
