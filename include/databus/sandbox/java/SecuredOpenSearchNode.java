import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One OpenSearch node with the security plugin in the foreground: BASE_FOLDER HTTP_PORT TRANSPORT_PORT. */
public final class SecuredOpenSearchNode {
  private SecuredOpenSearchNode() {}

  public static void main(String[] args) throws Exception {
    String baseFolder = args[0];
    int httpPort = Integer.parseInt(args[1]);
    int transportPort = Integer.parseInt(args[2]);

    OpenSearchRunner runner = new OpenSearchRunner();
    // The runner looks for a free port only up to this limit, which is low by default.
    runner.setMaxHttpPort(65535);
    runner.onBuild(
        (number, settings) -> {
          settings.put("network.host", "127.0.0.1");
          settings.put("http.port", httpPort);
          settings.put("transport.port", transportPort);
          settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
          settings.put("node.store.allow_mmap", false);
          String tls = "plugins.security.ssl.";
          for (String layer : new String[] {"transport.", "http."}) {
            settings.put(tls + layer + "pemcert_filepath", "server.crt");
            settings.put(tls + layer + "pemkey_filepath", "server.key");
            settings.put(tls + layer + "pemtrustedcas_filepath", "ca.pem");
          }
          settings.put(tls + "http.enabled", true);
          settings.put(tls + "http.clientauth_mode", "OPTIONAL");
          settings.put(tls + "transport.enforce_hostname_verification", false);
          settings.put("plugins.security.allow_default_init_securityindex", true);
          settings.put("plugins.security.audit.type", "noop");
          settings.putList("plugins.security.authcz.admin_dn", "CN=admin");
          settings.putList("plugins.security.nodes_dn", "CN=opensearch-tls");
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(runner)));
    runner.build(
        OpenSearchRunner.newConfigs()
            .basePath(baseFolder)
            .clusterName("databus")
            .numOfNode(1)
            .baseHttpPort(httpPort - 1)
            .pluginTypes("org.opensearch.security.OpenSearchSecurityPlugin")
            .disableESLogger());
    Thread.currentThread().join();
  }

  private static void close(OpenSearchRunner runner) {
    try {
      runner.close();
    } catch (Exception e) {
      System.err.println("The node did not close in order: " + e);
    }
  }
}
