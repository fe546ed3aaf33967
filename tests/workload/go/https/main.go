// A TLS server and client of HTTP/1.1 and HTTP/2.
//
//	https server CERTIFICATE KEY: prints its port, and serves until its standard input ends
//	https client URL CONNECTIONS REQUESTS PROTOCOL: waits for a line, sends requests, and prints the SHA-256 of each answer
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

func main() {
	var err error
	if os.Args[1] == "server" {
		err = serve(os.Args[2], os.Args[3])
	} else {
		err = request(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(certificate, key string) error {
	http.HandleFunc("/bytes/", func(answer http.ResponseWriter, request *http.Request) {
		size, _ := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/bytes/"))
		io.Copy(io.Discard, request.Body)
		answer.Write(bytes.Repeat([]byte("sslsniff"), size/8+1)[:size])
	})
	http.HandleFunc("/echo", func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		answer.Write(body)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go http.ServeTLS(listener, nil, certificate, key)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func request(url, connections, requests, protocol string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	count, _ := strconv.Atoi(connections)
	each, _ := strconv.Atoi(requests)
	var all sync.WaitGroup
	failures := make(chan error, count)
	for connection := 0; connection < count; connection++ {
		all.Add(1)
		go func() {
			defer all.Done()
			failures <- requestOnOne(url, each, protocol)
		}()
	}
	all.Wait()
	for connection := 0; connection < count; connection++ {
		if err := <-failures; err != nil {
			return err
		}
	}
	return nil
}

func requestOnOne(url string, requests int, protocol string) error {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"},
		ForceAttemptHTTP2: protocol == "h2",
	}
	if protocol != "h2" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for number := 0; number < requests; number++ {
		sent := strings.Repeat(fmt.Sprintf("%d ", number), 1000)
		answer, err := client.Post(fmt.Sprintf("%s?%d", url, number), "text/plain", strings.NewReader(sent))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			return err
		}
		fmt.Printf("%d %x\n", number, sha256.Sum256(body))
	}
	return nil
}
