// Shows the API's schema with Swagger's viewer; calls are made as the person who is signed in.
"use strict";

(() => {
  const place = document.getElementById("api-docs");
  const cookie = (name) => (document.cookie.split("; ").find((each) => each.startsWith(`${name}=`)) || "").split("=")[1];

  window.SwaggerUIBundle({
    url: place.dataset.schema,
    domNode: place,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    requestInterceptor: (request) => {
      const token = cookie("csrftoken");
      if (token && request.method !== "GET") request.headers["X-CSRFToken"] = token;
      return request;
    },
  });
})();
