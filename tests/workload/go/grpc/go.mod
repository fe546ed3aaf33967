module sslsniff/grpc

go 1.22

require google.golang.org/grpc v1.67.3
