// A server of HTTP/1.1 whose handshakes fail: `handshakes KIND CERTIFICATE KEY AUTHORITY` prints its port.
//
// KIND: one of tests/workload/python/failing_handshakes.py; some need nothing of a server.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/ioutil"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	certificate, err := tls.LoadX509KeyPair(os.Args[2], os.Args[3])
	check(err)
	trusted, err := ioutil.ReadFile(os.Args[4])
	check(err)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	switch os.Args[1] {
	case "no_shared_version":
		config.MinVersion = tls.VersionTLS13
	case "client_certificate", "untrusted_client":
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(trusted)
	case "unknown_name":
		config.Certificates = nil
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal((&http.Server{TLSConfig: config}).Serve(tls.NewListener(listener, config)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
