// A server of HTTP/1.1 and HTTP/2 by ALPN: `server CERTIFICATE KEY` prints its port. TLS_VERSION=1.2 in the environment
// leaves only that version of the protocol.
//
// GET /bytes/N answers N bytes, POST /echo the request's body, each with the request's `x-nonce`.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	http.HandleFunc("/bytes/", func(answer http.ResponseWriter, request *http.Request) {
		size, _ := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/bytes/"))
		respond(answer, request, pattern(size))
	})
	http.HandleFunc("/echo", func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			log.Print(err)
			return
		}
		respond(answer, request, body)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	config := &tls.Config{}
	if os.Getenv("TLS_VERSION") == "1.2" {
		config.MaxVersion = tls.VersionTLS12
	}
	server := &http.Server{TLSConfig: config}
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}

func respond(answer http.ResponseWriter, request *http.Request, body []byte) {
	answer.Header().Set("X-Nonce", request.Header.Get("X-Nonce"))
	answer.Write(body)
}

// pattern returns size bytes that are the same every time, and no two parts of which are.
func pattern(size int) []byte {
	var data []byte
	for block := 0; len(data) < size; block++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(block)))
		data = append(data, sum[:]...)
	}
	return data[:size]
}
