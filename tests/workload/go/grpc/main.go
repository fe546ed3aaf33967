// A server of gRPC-Go: `grpc CERTIFICATE KEY` prints its port.
//
// /test.Echo/Unary answers with the message that it was sent, /test.Echo/Streaming with each of them as it comes. The
// metadata of the answers tell the request's `x-nonce`, and in `x-client` the address that it came from.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// echo takes messages as the bytes that they are on the wire.
type echo struct{}

func (echo) Name() string { return "proto" }

func (echo) Marshal(message interface{}) ([]byte, error) { return *message.(*[]byte), nil }

func (echo) Unmarshal(data []byte, message interface{}) error {
	*message.(*[]byte) = append([]byte{}, data...)
	return nil
}

func main() {
	encoding.RegisterCodec(echo{})
	secrets, err := credentials.NewServerTLSFromFile(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(secrets))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*interface{})(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "Unary", Handler: answer, ServerStreams: true, ClientStreams: true},
			{StreamName: "Streaming", Handler: answer, ServerStreams: true, ClientStreams: true},
		},
	}, struct{}{})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}

func answer(_ interface{}, stream grpc.ServerStream) error {
	asked, _ := metadata.FromIncomingContext(stream.Context())
	from, _ := peer.FromContext(stream.Context())
	told := metadata.Pairs("x-client", from.Addr.String())
	for _, nonce := range asked.Get("x-nonce") {
		told.Append("x-nonce", nonce)
	}
	if err := stream.SendHeader(told); err != nil {
		return err
	}
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}
