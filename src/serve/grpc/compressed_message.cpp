// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/compressed_message.hpp"

#include <grpc/grpc.h>
#include <grpcpp/support/proto_buffer_reader.h>

namespace sluice::serve {
namespace {

// gRPC's C++ interface has no other way to what its C interface says of a message.
class message_look final : public grpc::ProtoBufferReader {
public:
    // It reads nothing, and so changes nothing.
    explicit message_look(const grpc::ByteBuffer& message)
        : ProtoBufferReader(const_cast<grpc::ByteBuffer*>(&message)) {}

    grpc_compression_algorithm compression() { return reader()->buffer_in->data.raw.compression; }
};

}  // namespace

void accept_compressed(grpc::ServerBuilder& server) {
    server.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    server.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, can_unpack(content_coding::deflate));
    server.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, can_unpack(content_coding::gzip));
}

content_coding coding_of(const grpc::ByteBuffer& message) {
    if (!message.Valid()) return content_coding::identity;
    switch (message_look(message).compression()) {
        case GRPC_COMPRESS_NONE: return content_coding::identity;
        case GRPC_COMPRESS_GZIP: return content_coding::gzip;
        case GRPC_COMPRESS_DEFLATE: return content_coding::deflate;
        default: return content_coding::other;
    }
}

}  // namespace sluice::serve
