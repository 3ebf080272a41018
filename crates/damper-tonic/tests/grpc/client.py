#!/usr/bin/env python3
"""A client of another implementation: calls the server of the example tonic_echo at an address, and sees the same.

Wants grpcio, and grpcio-status to take the details of a status apart. Messages are bytes, so that no code is generated.
"""
import sys

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

MESSAGE = b"\x0a\x05hello"  # its only field


def refusal(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was let pass")


def assert_limited(error):
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    status = rpc_status.from_call(error)
    info = error_details_pb2.RetryInfo()
    quota, cause = error_details_pb2.QuotaFailure(), error_details_pb2.ErrorInfo()
    assert len(status.details) == 3 and status.details[0].Unpack(info), status
    assert status.details[1].Unpack(quota) and quota.violations[0].description == "2/min burst 3", status
    assert status.details[2].Unpack(cause) and (cause.reason, cause.domain) == ("OVER_LIMIT", "damper"), status
    wait = info.retry_delay.ToTimedelta()
    assert 0 < wait.total_seconds() <= 30, info
    print(f"{error.code().name}: {error.details()}, to be exact {wait}")


with grpc.insecure_channel(sys.argv[1]) as channel:
    unary = channel.unary_unary("/damper.test.Echo/Unary")
    client_streaming = channel.stream_unary("/damper.test.Echo/ClientStreaming")
    server_streaming = channel.unary_stream("/damper.test.Echo/ServerStreaming")
    bidirectional = channel.stream_stream("/damper.test.Echo/Bidirectional")
    health = channel.unary_unary("/damper.test.Health/Check")

    assert unary(MESSAGE, timeout=10) == MESSAGE
    assert client_streaming(iter([MESSAGE]), timeout=10) == MESSAGE
    assert list(bidirectional(iter([MESSAGE] * 2), timeout=10)) == [MESSAGE] * 2
    assert_limited(refusal(lambda: unary(MESSAGE, timeout=10)))
    assert_limited(refusal(lambda: client_streaming(iter([MESSAGE]), timeout=10)))
    assert_limited(refusal(lambda: next(server_streaming(MESSAGE, timeout=10))))
    assert_limited(refusal(lambda: next(bidirectional(iter([MESSAGE]), timeout=10))))
    assert health(MESSAGE, timeout=10) == MESSAGE, "exempt"
