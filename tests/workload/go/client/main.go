// A client of HTTP/1.1 and HTTP/2: `client PORT TRUSTED PROTOCOL:COUNT...`
//
// Makes COUNT requests on each connection, over HTTP/1.1 (PROTOCOL is 1) one after the other, over HTTP/2 (2) all at once,
// and tells of them: a JSON object a line. TLS_VERSION=1.2 in the environment leaves only that version of the protocol.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

var sizes = []int{0, 1 << 10, 1 << 20}

var made, told = int64(-1), make(chan string, 1000)

func main() {
	trusted, err := os.ReadFile(os.Args[2])
	check(err)
	var all sync.WaitGroup
	for _, connection := range os.Args[3:] {
		var count int
		_, err := fmt.Sscanf(connection[2:], "%d", &count)
		check(err)
		client := newClient(trusted, connection[:1])
		url := "https://localhost:" + os.Args[1]
		if connection[:1] == "1" {
			all.Add(1)
			go func() {
				defer all.Done()
				for number := 0; number < count; number++ {
					ask(client, url)
				}
			}()
			continue
		}
		ask(client, url) // all others find its connection
		for number := 1; number < count; number++ {
			all.Add(1)
			go func() {
				defer all.Done()
				ask(client, url)
			}()
		}
	}
	all.Wait()
	close(told)
	for line := range told {
		fmt.Println(line)
	}
}

func newClient(trusted []byte, protocol string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	config := &tls.Config{RootCAs: roots}
	if os.Getenv("TLS_VERSION") == "1.2" {
		config.MaxVersion = tls.VersionTLS12
	}
	transport := &http.Transport{
		TLSClientConfig:   config,
		ForceAttemptHTTP2: protocol == "2",
	}
	if protocol == "1" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport}
}

func ask(client *http.Client, url string) {
	number := atomic.AddInt64(&made, 1)
	size := sizes[number/2%int64(len(sizes))]
	nonce := fmt.Sprintf("%d-%d", os.Getpid(), number)
	method, target, body := "GET", fmt.Sprintf("/bytes/%d", size), []byte{}
	if number%2 == 1 {
		method, target, body = "POST", "/echo", pattern(size, nonce)
	}
	request, err := http.NewRequest(method, url+target, bytes.NewReader(body))
	check(err)
	request.Header.Set("X-Nonce", nonce)
	var conn net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn }}
	response, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	check(err)
	answer, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	line, err := json.Marshal(map[string]interface{}{
		"nonce":           nonce,
		"protocol":        strings.TrimSuffix(strings.ToLower(response.Proto), ".0"),
		"method":          method,
		"target":          target,
		"status":          response.StatusCode,
		"client":          address(conn.LocalAddr()),
		"server":          address(conn.RemoteAddr()),
		"request_sha256":  fmt.Sprintf("%x", sha256.Sum256(body)),
		"response_sha256": fmt.Sprintf("%x", sha256.Sum256(answer)),
	})
	check(err)
	told <- string(line)
}

func address(known net.Addr) []interface{} {
	ends := known.(*net.TCPAddr)
	return []interface{}{ends.IP.String(), ends.Port}
}

// pattern returns size bytes that depend on the seed and do not repeat.
func pattern(size int, seed string) []byte {
	var data []byte
	for block := 0; len(data) < size; block++ {
		sum := sha256.Sum256([]byte(fmt.Sprintf("%s %d", seed, block)))
		data = append(data, sum[:]...)
	}
	return data[:size]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
